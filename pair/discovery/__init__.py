"""Where nodes come from: mDNS records and the user's own list, both as sightings. Only this folder
knows zeroconf.
"""
