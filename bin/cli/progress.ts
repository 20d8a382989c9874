const cells = 10;

/** `[#####-----] 250/500 49/s, 5 s left`. @param forMs since the first of `done` */
export function progressBar(done: number, total: number, forMs: number): string {
  const filled = total === 0 ? cells : Math.min(cells, Math.floor((done / total) * cells));
  const perSecond = forMs > 0 ? (done * 1_000) / forMs : 0;
  const left = Math.max(0, total - done);
  const pace = perSecond > 0 ? ` ${Math.round(perSecond)}/s, ${duration((left / perSecond) * 1_000)} left` : '';
  return `[${'#'.repeat(filled)}${'-'.repeat(cells - filled)}] ${done}/${total}${pace}`;
}

/** Rounded up to what a person wants to know: `5 s`, `12 min`, `3 h`. */
export function duration(ms: number): string {
  const s = Math.ceil(ms / 1_000);
  if (s < 120) return `${s} s`;
  return s < 7_200 ? `${Math.ceil(s / 60)} min` : `${Math.ceil(s / 3_600)} h`;
}
