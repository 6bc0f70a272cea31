"""What every benchmark job shares: data sets, cache, runs of pipeann and its rivals, figures."""
