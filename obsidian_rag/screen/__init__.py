"""Results on a terminal: laid out to its width, with colours, marked matches and links to click."""
