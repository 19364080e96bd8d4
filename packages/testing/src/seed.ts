import { randomInt } from "node:crypto"

const VARIABLE = "BERTH_SEED"

/**
 * Chooses the seed of a run unless a person gave one. It is called where the run begins: workers and their children
 * inherit the seed.
 */
export const chooseSeed = (): void => {
  process.env[VARIABLE] ||= String(randomInt(2 ** 31))
}

/** The seed of this run, for code that draws its random numbers itself. */
export const runSeed = (): number => {
  chooseSeed()
  const seed = Number(process.env[VARIABLE])
  if (Number.isSafeInteger(seed)) return seed
  throw new Error(`${VARIABLE} must be a whole number, not ${process.env[VARIABLE]}`)
}

/** Random numbers below 1 that are the same for the same seed (mulberry32). */
export const seeded = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Random numbers of this run. Each name has its own sequence, so that one suite's draws do not depend on another's. */
export const seededFor = (name: string): (() => number) => {
  let hash = runSeed() | 0
  for (const letter of name) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193)
  return seeded(hash)
}
