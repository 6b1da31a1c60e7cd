"""mini_attn: attention as a support vector machine over tokens, in a small library.

Data flows one way: ``data`` -> ``models`` -> ``train`` -> ``geometry`` <- ``svm``.
Every array takes leading trial dimensions; dtype and device follow the input.
"""
