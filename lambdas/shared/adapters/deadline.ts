/**
 * Calls `expired` after `ms`, once the loop has looked at its sockets again: after a stall or a freeze it serves timers
 * first, though what they wait for may have come in time. @returns cancels it; may be called late and often
 */
export function deadline(ms: number, expired: () => void): () => void {
  let lastLook: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => (lastLook = setImmediate(expired)), Math.max(0, ms));
  return () => {
    clearTimeout(timer);
    clearImmediate(lastLook);
  };
}
