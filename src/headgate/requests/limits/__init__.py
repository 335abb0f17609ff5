"""Token limits of routes: what a request takes of them, and what clients are told."""
