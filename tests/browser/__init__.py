"""The pages in a real browser: every action, texts that try to be script, and what axe-core says of accessibility."""
