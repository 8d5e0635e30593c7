"""Tests of what needs no database and no other queue."""
