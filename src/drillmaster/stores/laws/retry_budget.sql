-- The law of rules/retry_budget.py. One row a bucket: what is missing of a full one, and the last marks.
CREATE TABLE IF NOT EXISTS drillmaster_retry_budget (
  key text PRIMARY KEY,
  milli bigint NOT NULL DEFAULT 0,
  marks text[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION drillmaster_retry_budget(
  p_key text, p_take_milli bigint, p_give_milli bigint, p_full_milli bigint, p_mark text, p_now_us bigint DEFAULT NULL,
  OUT allowed boolean, OUT left_milli bigint
) LANGUAGE plpgsql AS $$
DECLARE
  was drillmaster_retry_budget;
BEGIN
  SELECT * INTO was FROM drillmaster_retry_budget b WHERE b.key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO drillmaster_retry_budget (key) VALUES (p_key) ON CONFLICT DO NOTHING;
    SELECT * INTO was FROM drillmaster_retry_budget b WHERE b.key = p_key FOR UPDATE;
  END IF;
  IF p_give_milli > 0 AND NOT p_mark = ANY (was.marks) THEN
    was.milli := greatest(0, was.milli - p_give_milli);
    was.marks := was.marks || p_mark;
    was.marks := was.marks[greatest(1, cardinality(was.marks) - 31):];
  END IF;
  allowed := was.milli + p_take_milli <= p_full_milli;
  IF allowed THEN
    was.milli := was.milli + p_take_milli;
  END IF;
  left_milli := greatest(0, p_full_milli - was.milli);
  UPDATE drillmaster_retry_budget b SET milli = was.milli, marks = was.marks WHERE b.key = p_key;
END $$;
