"""A master's binary log: read as a replica, decoded, and cut into transactions."""
