"""The jobs: a description (TOML) per figure, a module per group of figures."""
