-- The law of rules/quota.py. One row a limit of a bucket: what was granted and still counts, oldest first, and the spacing.
CREATE TABLE IF NOT EXISTS drillmaster_quota (
  key text NOT NULL,
  name text NOT NULL,
  granted_at bigint[] NOT NULL,
  granted_cost bigint[] NOT NULL,
  tat_us bigint NOT NULL,
  tat_part bigint NOT NULL,
  tat_of bigint NOT NULL,
  seen_us bigint NOT NULL,
  until_us bigint NOT NULL,
  PRIMARY KEY (key, name)
) WITH (fillfactor = 50);

-- p_limits: "name,cost,window_us,cap,burst;...".
CREATE OR REPLACE FUNCTION drillmaster_quota(
  p_key text, p_limits text, p_now_us bigint DEFAULT NULL,
  OUT allowed boolean, OUT wait_us bigint, OUT remaining bigint, OUT decided integer
) LANGUAGE plpgsql AS $$
DECLARE
  limits text[] := string_to_array(p_limits, ';');
  part text[];
  was drillmaster_quota;
  held drillmaster_quota[];
  after drillmaster_quota[];
  now_us bigint;
  cost bigint;
  window_us bigint;
  cap bigint;
  burst bigint;
  spent bigint;
  over bigint;
  at bigint;
  piece_us bigint;
  burst_part bigint;
  due_us bigint;
  due_part bigint;
  early_us bigint;
  its_us bigint;
  its_left bigint;
  first_left bigint;
  known boolean := true;
BEGIN
  -- Who waited for its turn reads what the one before has written; a snapshot from before would not show it.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'transactions here are %, wanted read committed', current_setting('transaction_isolation');
  END IF;
  PERFORM pg_advisory_xact_lock(7218341, hashtext(p_key));
  now_us := coalesce(p_now_us, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  FOR i IN 1 .. cardinality(limits) LOOP
    SELECT * INTO was FROM drillmaster_quota q WHERE q.key = p_key AND q.name = split_part(limits[i], ',', 1);
    IF NOT FOUND THEN
      was := ROW(p_key, split_part(limits[i], ',', 1), '{}', '{}', 0, 0, 1, 0, 0);
      known := false;
    END IF;
    now_us := greatest(now_us, was.seen_us);
    held[i] := was;
  END LOOP;

  allowed := true;
  wait_us := 0;
  FOR i IN 1 .. cardinality(limits) LOOP
    part := string_to_array(limits[i], ',');
    cost := part[2]; window_us := part[3]; cap := part[4]; burst := part[5];
    was := held[i];
    IF was.until_us <= now_us THEN
      was := ROW(was.key, was.name, '{}', '{}', 0, 0, 1, 0, 0);
    END IF;
    SELECT coalesce(array_agg(g.at ORDER BY g.n), '{}'), coalesce(array_agg(g.cost ORDER BY g.n), '{}'), coalesce(sum(g.cost), 0)
      INTO was.granted_at, was.granted_cost, spent
      FROM unnest(was.granted_at, was.granted_cost) WITH ORDINALITY AS g(at, cost, n)
      WHERE g.at > now_us - window_us;
    its_left := greatest(0, cap - spent);
    IF cost > burst THEN
      its_us := NULL;
    ELSE
      IF was.tat_of <> cap THEN
        was.tat_us := was.tat_us + (was.tat_part > 0)::int;
        was.tat_part := 0;
      END IF;
      IF was.tat_us < now_us THEN
        was.tat_us := now_us;
        was.tat_part := 0;
      END IF;
      burst_part := (burst * (window_us % cap)) % cap;
      due_part := was.tat_part + cost * (window_us % cap);
      due_us := was.tat_us + cost * (window_us / cap) + due_part / cap;
      due_part := due_part % cap;
      early_us := due_us - burst * (window_us / cap) - (burst * (window_us % cap)) / cap - now_us
        + (due_part > burst_part)::int;
      over := spent + cost - cap;
      IF over <= 0 AND early_us <= 0 THEN
        its_us := 0;
        its_left := its_left - cost;
        at := now_us;
        IF cap > 1000 THEN
          piece_us := greatest(1, window_us / 1000);
          at := (now_us + piece_us - 1) / piece_us * piece_us;
        END IF;
        IF cardinality(was.granted_at) > 0 AND was.granted_at[cardinality(was.granted_at)] >= at THEN
          at := was.granted_at[cardinality(was.granted_at)];
          was.granted_cost[cardinality(was.granted_cost)] := was.granted_cost[cardinality(was.granted_cost)] + cost;
        ELSE
          was.granted_at := was.granted_at || at;
          was.granted_cost := was.granted_cost || cost;
        END IF;
        was.tat_us := due_us;
        was.tat_part := due_part;
        was.tat_of := cap;
        was.seen_us := now_us;
        was.until_us := greatest(at + window_us, due_us) + window_us;
        after[i] := was;
      ELSE
        its_us := 0;
        FOR j IN 1 .. cardinality(was.granted_at) LOOP
          EXIT WHEN over <= 0;
          over := over - was.granted_cost[j];
          its_us := was.granted_at[j] + window_us - now_us;
        END LOOP;
        its_us := greatest(its_us, early_us);
      END IF;
    END IF;
    IF i = 1 THEN
      first_left := its_left;
    END IF;
    IF i = 1 OR (wait_us IS NOT NULL AND (its_us IS NULL OR its_us > wait_us)) THEN
      wait_us := its_us;
      remaining := its_left;
      decided := i - 1;
    END IF;
  END LOOP;
  IF wait_us IS NULL OR wait_us <> 0 THEN
    allowed := false;
    RETURN;
  END IF;

  remaining := first_left;
  decided := 0;
  INSERT INTO drillmaster_quota SELECT * FROM unnest(after)
    ON CONFLICT (key, name) DO UPDATE SET granted_at = excluded.granted_at, granted_cost = excluded.granted_cost,
      tat_us = excluded.tat_us, tat_part = excluded.tat_part, tat_of = excluded.tat_of, seen_us = excluded.seen_us,
      until_us = excluded.until_us;
  IF NOT known THEN  -- each new limit takes two old ones along, so that the table does not grow for ever
    DELETE FROM drillmaster_quota WHERE ctid IN (
      SELECT q.ctid FROM drillmaster_quota q WHERE q.until_us < now_us AND q.key <> p_key LIMIT 2 FOR UPDATE SKIP LOCKED
    );
  END IF;
END $$;
