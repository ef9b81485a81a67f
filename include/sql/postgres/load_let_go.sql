-- The loaders of a load job may claim no more. Called by: a load job that ends. Parameter: job. Result: none.
SELECT pg_advisory_unlock(hashtextextended('sluice load job ' || %(job)s, 0))
