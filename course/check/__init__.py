"""Checking an answer: what an exercise is, trying a function on its inputs, and comparing what comes out."""
