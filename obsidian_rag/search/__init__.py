"""Search: independent retrievers, fused by rank."""
