-- The law of rules/later.py. One row a queue, which is the lock, and one a name.
CREATE TABLE IF NOT EXISTS drillmaster_later (
  key text PRIMARY KEY,
  seen_us bigint NOT NULL DEFAULT 0,
  names bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS drillmaster_later_names (
  key text NOT NULL,
  name text COLLATE "C" NOT NULL,
  at_us bigint NOT NULL,
  nth bigint NOT NULL,
  PRIMARY KEY (key, name)
);
CREATE INDEX IF NOT EXISTS drillmaster_later_names_due ON drillmaster_later_names (key, at_us, name);

CREATE OR REPLACE FUNCTION drillmaster_later(
  p_key text, p_what text, p_name text, p_span_us bigint, p_nth bigint, p_now_us bigint DEFAULT NULL,
  OUT allowed boolean, OUT name text, OUT nth bigint, OUT wait_us bigint
) LANGUAGE plpgsql AS $$
DECLARE
  queue drillmaster_later;
  was drillmaster_later_names;
  now_us bigint;
BEGIN
  SELECT * INTO queue FROM drillmaster_later q WHERE q.key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO drillmaster_later (key) VALUES (p_key) ON CONFLICT DO NOTHING;
    SELECT * INTO queue FROM drillmaster_later q WHERE q.key = p_key FOR UPDATE;
  END IF;
  now_us := coalesce(p_now_us, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  IF queue.names > 0 THEN
    now_us := greatest(now_us, queue.seen_us);
  END IF;

  allowed := false;
  name := p_name;
  nth := 0;
  IF p_what = 'put' THEN
    SELECT * INTO was FROM drillmaster_later_names n WHERE n.key = p_key AND n.name = p_name;
    IF was.nth IS NOT NULL THEN
      was.at_us := greatest(was.at_us, now_us + p_span_us);
      was.nth := was.nth + 1;
      UPDATE drillmaster_later_names n SET at_us = was.at_us, nth = was.nth WHERE n.key = p_key AND n.name = p_name;
    ELSIF queue.names < 10000 THEN
      was.at_us := now_us + p_span_us;
      was.nth := 1;
      INSERT INTO drillmaster_later_names VALUES (p_key, p_name, was.at_us, was.nth);
      queue.names := queue.names + 1;
    END IF;
    IF was.nth IS NOT NULL THEN
      allowed := true;
      nth := was.nth;
      wait_us := was.at_us - now_us;
    END IF;
  ELSIF p_what = 'claim' THEN
    name := '';
    SELECT * INTO was FROM drillmaster_later_names n WHERE n.key = p_key ORDER BY n.at_us, n.name LIMIT 1;
    IF was.nth IS NOT NULL AND was.at_us > now_us THEN
      wait_us := was.at_us - now_us;
    ELSIF was.nth IS NOT NULL THEN
      allowed := true;
      name := was.name;
      nth := was.nth + 1;
      wait_us := 0;
      UPDATE drillmaster_later_names n SET at_us = now_us + p_span_us, nth = was.nth + 1
        WHERE n.key = p_key AND n.name = was.name;
    END IF;
  ELSE
    nth := p_nth;
    DELETE FROM drillmaster_later_names n WHERE n.key = p_key AND n.name = p_name AND n.nth = p_nth AND p_nth > 0;
    allowed := FOUND;
    IF allowed THEN
      queue.names := queue.names - 1;
    END IF;
  END IF;
  UPDATE drillmaster_later q SET seen_us = now_us, names = queue.names WHERE q.key = p_key;
END $$;
