-- The first rows of the tables of shop.sql and odd_names.sql.
-- Called by: devstack.demo.master. Privileges: owner of the tables. Oldest version: PostgreSQL 14.
INSERT INTO public.heartbeat VALUES (1, 0, now());
INSERT INTO public.accounts SELECT n, n * 10, nextval('public.stamp') FROM generate_series(1, 60) AS n;
INSERT INTO public.seats SELECT n, n, 'code ' || n, nextval('public.stamp') FROM generate_series(1, 60) AS n;
INSERT INTO public.orders (note)
    SELECT CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'a <b> & ]]>' END FROM generate_series(1, 2000) AS n;
INSERT INTO public.lines SELECT n, line, n FROM generate_series(1, 2000) AS n, generate_series(1, 3) AS line;
INSERT INTO public.notes SELECT n % 5, 'note ' || n % 7 FROM generate_series(1, 100) AS n;
INSERT INTO public.bulk SELECT n, repeat(md5(n::text), 3), nextval('public.stamp') FROM generate_series(1, 500) AS n;
INSERT INTO public.parted SELECT n, 'first' FROM generate_series(0, 79) AS n;
INSERT INTO public.moods SELECT n, 'first', nextval('public.stamp') FROM generate_series(1, 60) AS n;
INSERT INTO public.changing SELECT n, 'first ' || n, nextval('public.stamp') FROM generate_series(1, 60) AS n;
INSERT INTO public.staff SELECT n, 'name ' || n, nullif(n / 3, 0) FROM generate_series(1, 100) AS n;
INSERT INTO public.readings SELECT n % 10, n % 7, jsonb_build_object('n', n % 5), '2024-01-01' FROM generate_series(1, 500) AS n;
INSERT INTO public.rates SELECT currency, date '2024-01-01' + n, n / 100.0, NULL
    FROM unnest(ARRAY['EUR', 'USD', 'ß']) AS currency, generate_series(1, 50) AS n;
INSERT INTO public.items SELECT n, 'items ' || n FROM generate_series(1, 10) AS n;
INSERT INTO public."Items" SELECT n, 'Items ' || n FROM generate_series(1, 11) AS n;
INSERT INTO public."ITEMS" SELECT n, 'ITEMS ' || n FROM generate_series(1, 12) AS n;
INSERT INTO "Mixed Case"."trigger" ("new", "old", content, guid, trans_key, version)
    SELECT n, -n, 'content ]]> ' || n, gen_random_uuid(), '18446744073709551615', '' FROM generate_series(1, 20) AS n;
