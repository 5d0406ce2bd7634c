"""Commands with modules of their own: one click command a module, imported when it is called or listed."""
