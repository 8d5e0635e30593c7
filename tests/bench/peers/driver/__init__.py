"""Runs job queues beside each other on one PostgreSQL server; ../README.md tells what and why."""
