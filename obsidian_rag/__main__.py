"""`python -m obsidian_rag` is the command obsidian-rag."""

from obsidian_rag.cli import main

if __name__ == "__main__":
    main()
