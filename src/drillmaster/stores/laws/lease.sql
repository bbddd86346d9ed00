-- The law of rules/lease.py. One row a name: the latest grant. `until_us` 0: it was released.
CREATE TABLE IF NOT EXISTS drillmaster_lease (
  key text PRIMARY KEY,
  token bigint NOT NULL,
  holder text NOT NULL,
  held_by text NOT NULL,
  since_us bigint NOT NULL,
  until_us bigint NOT NULL,
  seen_us bigint NOT NULL,
  released boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
-- Tables that were made before had no such column. Asked first, since ALTER TABLE waits for every guarded write, and all wait for it.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = 'drillmaster_lease'::regclass AND attname = 'released') THEN
    ALTER TABLE drillmaster_lease ADD COLUMN released boolean NOT NULL DEFAULT false;
  END IF;
END $$;
-- What a token loses its lease by changes a column of this index. It looks nothing up: PostgreSQL takes an update for one that
-- conflicts with FOR KEY SHARE by the columns of unique indexes only, whatever lock its transaction took before. Without it, a
-- guarded write whose snapshot is older than a renewal would follow the row from there past a takeover, and be taken.
CREATE UNIQUE INDEX IF NOT EXISTS drillmaster_lease_grant ON drillmaster_lease (key, token, released);
CREATE TABLE IF NOT EXISTS drillmaster_lease_log (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL,
  at_us bigint NOT NULL,
  action text NOT NULL,
  holder text NOT NULL,
  by text NOT NULL,
  asked bigint,
  allowed boolean NOT NULL,
  reason text NOT NULL,
  token bigint
);
CREATE INDEX IF NOT EXISTS drillmaster_lease_log_key ON drillmaster_lease_log (key, n);

-- Locks, by what may go on beside what. A guarded write holds the row FOR KEY SHARE until it is committed (stores/fences.py).
-- Renewing, and being refused, take FOR NO KEY UPDATE: they wait for no write, the holder's own least of all. What takes the
-- lease away from its token (a grant over an earlier one, a release) takes FOR UPDATE: it waits until such a write is committed.
CREATE OR REPLACE FUNCTION drillmaster_lease(
  p_key text, p_action text, p_holder text, p_by text, p_token bigint, p_ttl_us bigint, p_permitted boolean,
  p_now_us bigint DEFAULT NULL,
  OUT allowed boolean, OUT reason text, OUT token bigint, OUT left_us bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  was drillmaster_lease;
  now_us bigint;
  known boolean;
  live boolean := false;
  mine boolean := false;
  takes_away boolean := false;
  in_turn boolean := false;
  log_n bigint;
BEGIN
  LOOP
    SELECT * INTO was FROM drillmaster_lease l WHERE l.key = p_key FOR NO KEY UPDATE;
    known := FOUND;
    -- Read once the row is ours: who waited for it is later than who had it.
    now_us := coalesce(p_now_us, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    EXIT WHEN known;
    -- Where there is no row to take turns by, whoever makes one and whoever is told that there is none take turns by its name, and
    -- look once more: the log has them in the order in which they were answered.
    IF NOT in_turn THEN
      PERFORM pg_advisory_xact_lock(hashtextextended('drillmaster_lease:' || p_key, 0));
      in_turn := true;
      CONTINUE;
    END IF;
    IF p_action <> 'acquire' THEN
      reason := CASE WHEN p_permitted THEN 'not-held' ELSE 'steal-not-permitted' END;
      EXIT;
    END IF;
    INSERT INTO drillmaster_lease (key, token, holder, held_by, since_us, until_us, seen_us)
      VALUES (p_key, now_us, p_holder, p_by, now_us, now_us + p_ttl_us, now_us) ON CONFLICT DO NOTHING
      RETURNING * INTO was;
    IF FOUND THEN
      reason := 'granted';
      EXIT;
    END IF;
  END LOOP;

  IF known THEN
    now_us := greatest(now_us, was.seen_us);
    live := now_us < was.until_us;
    mine := was.holder = p_holder;
    IF NOT p_permitted THEN
      reason := 'steal-not-permitted';
    ELSIF p_action IN ('acquire', 'steal') THEN
      IF mine AND live THEN
        reason := CASE p_action WHEN 'acquire' THEN 'granted' ELSE 'stolen' END;
      ELSIF mine THEN
        reason := 'holder-spent';
      ELSIF p_action = 'acquire' AND live THEN
        reason := 'held';
      ELSIF p_action = 'acquire' THEN
        reason := 'granted';
        takes_away := true;
      ELSIF p_token = was.token THEN
        reason := 'stolen';
        takes_away := true;
      ELSE
        reason := 'stale-token';
      END IF;
    ELSIF p_token IS DISTINCT FROM was.token THEN
      reason := 'stale-token';
    ELSIF NOT mine THEN
      reason := 'other-holder';
    ELSIF p_action = 'release' AND (live OR was.until_us = 0) THEN
      reason := 'released';
      takes_away := was.until_us <> 0;
    ELSIF NOT live THEN
      reason := CASE was.until_us WHEN 0 THEN 'not-held' ELSE 'expired' END;
    ELSE
      reason := 'renewed';
      was.until_us := now_us + p_ttl_us;
    END IF;

    IF takes_away THEN
      PERFORM 1 FROM drillmaster_lease l WHERE l.key = p_key FOR UPDATE;
      now_us := greatest(now_us, coalesce(p_now_us, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint));
      IF reason = 'released' THEN
        was.until_us := 0;
        was.released := true;
      ELSE
        was.released := false;
        was.token := greatest(was.token + 1, now_us);
        was.holder := p_holder;
        was.held_by := p_by;
        was.since_us := now_us;
        was.until_us := now_us + p_ttl_us;
      END IF;
    END IF;
    UPDATE drillmaster_lease l SET token = was.token, holder = was.holder, held_by = was.held_by, since_us = was.since_us,
      until_us = was.until_us, seen_us = now_us, released = was.released WHERE l.key = p_key;
  END IF;

  allowed := reason IN ('granted', 'renewed', 'released', 'stolen');
  IF allowed AND reason <> 'released' THEN
    token := was.token;
  END IF;
  IF token IS NOT NULL OR reason = 'held' THEN
    left_us := was.until_us - now_us;
  END IF;
  INSERT INTO drillmaster_lease_log (key, at_us, action, holder, by, asked, allowed, reason, token)
    VALUES (p_key, now_us, p_action, p_holder, p_by, p_token, allowed, reason, token) RETURNING n INTO log_n;
  -- The latest million is kept; who is just removing an old line is not waited for.
  DELETE FROM drillmaster_lease_log o WHERE o.n IN (
    SELECT i.n FROM drillmaster_lease_log i WHERE i.n <= log_n - 1000000 ORDER BY i.n LIMIT 2 FOR UPDATE SKIP LOCKED);
END $$;
