"""Index a vault: `python indexer.py --help`. The same as `obsidian-rag index`."""

from obsidian_rag.indexing import main

if __name__ == "__main__":
    main()
