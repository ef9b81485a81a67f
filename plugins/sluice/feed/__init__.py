"""A master's rows and changes for readers that are no slaves: Spark's users. docs/feeds.md."""
