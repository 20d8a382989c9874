import type { Output } from './output.ts';

export interface Interrupt {
  isAsked(): boolean;
  listen(): void;
  release(): void;
}

/** The first interrupt ends the work after the call in flight; the second one ends the process. */
export function listenForInterrupt(out: Output): Interrupt {
  let asked = false;
  const onSignal = () => {
    asked = true;
    process.off('SIGINT', onSignal);
    out.note('\nStopping after the call that is under way; once more to leave it.');
  };
  const listen = () => void process.on('SIGINT', onSignal);
  listen();
  return { isAsked: () => asked, listen, release: () => void process.off('SIGINT', onSignal) };
}
