"""What measures `pair`: workloads, what times them, and the engine that stands in for a GPU."""
