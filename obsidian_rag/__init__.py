"""obsidian-rag: an Obsidian vault, searchable by the agent you work with."""

__version__ = "0.1.0"
