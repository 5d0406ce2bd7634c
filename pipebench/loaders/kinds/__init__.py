"""One module for each loader, with a `KIND`. Adding one changes no other file, but for its extra in pyproject.toml."""
