"""Token limits of routes: reservations, refusals, and rate limit headers for clients."""
