"""The decisions of `pair`: pure, without clock, socket, log or task. Start at DESIGN.md."""
