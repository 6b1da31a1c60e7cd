"""How the course is made and marked. Imports mini_attn, which knows nothing of teaching."""
