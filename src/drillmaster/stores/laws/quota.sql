-- The law of rules/quota.py. One row a bucket: what was granted and still counts, oldest first, and the spacing.
CREATE TABLE IF NOT EXISTS drillmaster_quota (
  key text PRIMARY KEY,
  granted_at bigint[] NOT NULL DEFAULT '{}',
  granted_cost bigint[] NOT NULL DEFAULT '{}',
  tat_us bigint NOT NULL DEFAULT 0,
  tat_part bigint NOT NULL DEFAULT 0,
  tat_of bigint NOT NULL DEFAULT 1,
  seen_us bigint NOT NULL DEFAULT 0,
  forget_us bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION drillmaster_quota(
  p_key text, p_cost bigint, p_window_us bigint, p_cap bigint, p_burst bigint, p_now_us bigint DEFAULT NULL,
  OUT allowed boolean, OUT wait_us bigint, OUT remaining bigint
) LANGUAGE plpgsql AS $$
DECLARE
  was drillmaster_quota;
  now_us bigint;
  live_at bigint[];
  live_cost bigint[];
  spent bigint;
  over bigint;
  at bigint;
  piece_us bigint;
  due_us bigint;
  due_part bigint;
  burst_part bigint;
  early_us bigint;
  frees_us bigint := 0;
  last_us bigint := 0;
BEGIN
  SELECT * INTO was FROM drillmaster_quota q WHERE q.key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO drillmaster_quota (key) VALUES (p_key) ON CONFLICT DO NOTHING;
    SELECT * INTO was FROM drillmaster_quota q WHERE q.key = p_key FOR UPDATE;
  END IF;
  -- Read once the row is ours: who waited for it is later than who had it.
  now_us := coalesce(p_now_us, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  now_us := greatest(now_us, was.seen_us);
  SELECT coalesce(array_agg(g.at ORDER BY g.n), '{}'), coalesce(array_agg(g.cost ORDER BY g.n), '{}'), coalesce(sum(g.cost), 0)
    INTO live_at, live_cost, spent
    FROM unnest(was.granted_at, was.granted_cost) WITH ORDINALITY AS g(at, cost, n)
    WHERE g.at > now_us - p_window_us;

  IF was.tat_of <> p_cap THEN
    was.tat_us := was.tat_us + (was.tat_part > 0)::int;
    was.tat_part := 0;
  END IF;
  IF was.tat_us < now_us THEN
    was.tat_us := now_us;
    was.tat_part := 0;
  END IF;
  burst_part := (p_burst * (p_window_us % p_cap)) % p_cap;
  due_part := was.tat_part + least(p_cost, p_burst) * (p_window_us % p_cap);
  due_us := was.tat_us + least(p_cost, p_burst) * (p_window_us / p_cap) + due_part / p_cap;
  due_part := due_part % p_cap;
  early_us := due_us - p_burst * (p_window_us / p_cap) - (p_burst * (p_window_us % p_cap)) / p_cap - now_us
    + (due_part > burst_part)::int;
  remaining := greatest(0, p_cap - spent);
  over := spent + p_cost - p_cap;

  allowed := false;
  IF p_cost > p_burst THEN
    wait_us := NULL;
  ELSIF over <= 0 AND early_us <= 0 THEN
    at := now_us;
    IF p_cap > 10000 THEN
      piece_us := greatest(1, p_window_us / 10000);
      at := (now_us + piece_us - 1) / piece_us * piece_us;
    END IF;
    IF cardinality(live_at) > 0 AND live_at[cardinality(live_at)] >= at THEN
      live_cost[cardinality(live_at)] := live_cost[cardinality(live_at)] + p_cost;
    ELSE
      live_at := live_at || at;
      live_cost := live_cost || p_cost;
    END IF;
    was.tat_us := due_us;
    was.tat_part := due_part;
    remaining := remaining - p_cost;
    allowed := true;
    wait_us := 0;
  ELSE
    FOR i IN 1 .. cardinality(live_at) LOOP
      EXIT WHEN over <= 0;
      over := over - live_cost[i];
      frees_us := live_at[i] + p_window_us - now_us;
    END LOOP;
    wait_us := greatest(frees_us, early_us);
  END IF;

  IF cardinality(live_at) > 0 THEN
    last_us := live_at[cardinality(live_at)] + p_window_us;
  END IF;
  UPDATE drillmaster_quota q SET granted_at = live_at, granted_cost = live_cost, tat_us = was.tat_us,
    tat_part = was.tat_part, tat_of = p_cap, seen_us = now_us, forget_us = greatest(last_us, was.tat_us, now_us) + p_window_us
    WHERE q.key = p_key;
END $$;
