"""What the answers of an unknown mistake have in common: forms, factors, changed inputs, laws, places."""
