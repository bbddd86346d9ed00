-- The law of rules/fence.py. One row a resource: the highest token it was written under.
CREATE TABLE IF NOT EXISTS drillmaster_fence (key text PRIMARY KEY, token bigint NOT NULL) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION drillmaster_fence(p_key text, p_token bigint, p_now_us bigint DEFAULT NULL,
  OUT allowed boolean, OUT reason text
) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO drillmaster_fence AS f (key, token) VALUES (p_key, p_token)
    ON CONFLICT (key) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token;
  allowed := FOUND;
  reason := CASE WHEN FOUND THEN 'current' ELSE 'stale-token' END;
END $$;
