"""Grading: strangers' code runs in a sandbox, its answers are compared outside."""
