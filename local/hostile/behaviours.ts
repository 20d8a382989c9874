import type { HostileBehaviour } from './behaviour.ts';
import { brokenAnswers, plainAnswers } from './behaviours-answers.ts';
import { connectionBehaviours } from './behaviours-connection.ts';
import { cutBehaviours } from './behaviours-cut.ts';
import { setupBehaviours } from './behaviours-setup.ts';
import { largeBehaviours, silentBehaviours, slowBehaviours } from './behaviours-silence.ts';

/** Every way to be hostile that this kit knows. */
export const hostileBehaviours: readonly HostileBehaviour[] = [
  ...setupBehaviours,
  ...silentBehaviours,
  ...slowBehaviours,
  ...cutBehaviours,
  ...largeBehaviours,
  ...plainAnswers,
  ...brokenAnswers,
  ...connectionBehaviours,
];

/** @throws Error if there is none of this name */
export function behaviourNamed(name: string): HostileBehaviour {
  const found = hostileBehaviours.find((behaviour) => behaviour.name === name);
  if (found === undefined) throw new Error(`no hostile behaviour is named ${name}`);
  return found;
}
