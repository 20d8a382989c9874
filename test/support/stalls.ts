/** How late this very process was while something ran: a deadline is judged apart from what the machine added. */
const beatMs = 5;

/** Runs `work`. @returns its result, and the milliseconds for which the event loop could not serve timers meanwhile. */
export async function withStalls<T>(work: () => Promise<T>): Promise<{ result: T; stalledMs: number }> {
  let stalledMs = 0;
  let lastMs = performance.now();
  const note = () => {
    const nowMs = performance.now();
    stalledMs += Math.max(0, nowMs - lastMs - 2 * beatMs);
    lastMs = nowMs;
  };
  const timer = setInterval(note, beatMs);
  try {
    const result = await work();
    note();
    return { result, stalledMs };
  } finally {
    clearInterval(timer);
  }
}
