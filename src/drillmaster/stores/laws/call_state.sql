-- The law of rules/call_state.py. One row a key.
CREATE TABLE IF NOT EXISTS drillmaster_call_state (
  key text PRIMARY KEY,
  holder text NOT NULL DEFAULT '',
  until_us bigint NOT NULL DEFAULT 0,
  calls bigint NOT NULL DEFAULT 0,
  not_before_us bigint NOT NULL DEFAULT 0,
  done boolean NOT NULL DEFAULT false,
  seen_us bigint NOT NULL DEFAULT 0,
  forget_us bigint NOT NULL DEFAULT 9223372036854775807
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS drillmaster_call_state_forget ON drillmaster_call_state (forget_us);

CREATE OR REPLACE FUNCTION drillmaster_call_state(
  p_key text, p_what text, p_holder text, p_hold_us bigint, p_wait_us bigint, p_keep_us bigint, p_most bigint,
  p_now_us bigint DEFAULT NULL, OUT allowed boolean, OUT why text, OUT calls bigint, OUT wait_us bigint
) LANGUAGE plpgsql AS $$
DECLARE
  was drillmaster_call_state;
  now_us bigint;
  made boolean := false;
BEGIN
  SELECT * INTO was FROM drillmaster_call_state c WHERE c.key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO drillmaster_call_state (key) VALUES (p_key) ON CONFLICT DO NOTHING;
    made := FOUND;
    SELECT * INTO was FROM drillmaster_call_state c WHERE c.key = p_key FOR UPDATE;
  END IF;
  now_us := coalesce(p_now_us, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  now_us := greatest(now_us, was.seen_us);
  IF was.forget_us <= now_us THEN
    was.holder := '';
    was.until_us := 0;
    was.calls := 0;
    was.not_before_us := 0;
    was.done := false;
  END IF;

  allowed := false;
  why := 'lost';
  wait_us := 0;
  IF p_what = 'begin' THEN
    IF was.done THEN
      why := 'done';
    ELSIF was.holder <> '' AND was.holder <> p_holder AND was.until_us > now_us THEN
      why := 'in-flight';
      wait_us := was.until_us - now_us;
    ELSIF was.calls >= p_most THEN
      why := 'spent';
    ELSIF was.holder <> p_holder AND was.not_before_us > now_us THEN
      why := 'early';
      wait_us := was.not_before_us - now_us;
    ELSE
      allowed := true;
      why := 'begun';
      was.holder := p_holder;
      was.until_us := now_us + p_hold_us;
      was.calls := was.calls + 1;
    END IF;
  ELSIF was.holder = p_holder OR (p_what = 'done' AND was.until_us <= now_us) THEN
    allowed := true;
    why := 'noted';
    IF p_what = 'done' THEN
      was.holder := '';
      was.until_us := 0;
      was.done := true;
    ELSE
      was.not_before_us := greatest(was.not_before_us, now_us + p_wait_us);
      IF p_what = 'wait' THEN
        was.until_us := greatest(was.until_us, was.not_before_us + p_hold_us);
      ELSE
        was.holder := '';
        was.until_us := 0;
      END IF;
    END IF;
  END IF;
  calls := was.calls;

  UPDATE drillmaster_call_state c SET holder = was.holder, until_us = was.until_us, calls = was.calls,
    not_before_us = was.not_before_us, done = was.done, seen_us = now_us,
    forget_us = greatest(now_us, was.not_before_us, was.until_us) + p_keep_us
    WHERE c.key = p_key;
  IF made THEN -- each new key takes two old ones along, so that the table does not grow for ever
    DELETE FROM drillmaster_call_state d WHERE d.key IN (
      SELECT o.key FROM drillmaster_call_state o WHERE o.forget_us < now_us LIMIT 2 FOR UPDATE SKIP LOCKED);
  END IF;
END $$;
