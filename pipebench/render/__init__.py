"""Renders reports for people to read. Every renderer is a pure function of a report."""
