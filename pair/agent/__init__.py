"""A machine that offers its engines: it reports on them, admits as many requests as they have
slots, and relays.

It serves its own engines and nobody else's, so a request that enters a node ends there.
"""
