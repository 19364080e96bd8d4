/** Says how long to wait so that, in the long run, no more than `perSecond` is taken; `burst` may be taken at once. */
export class Throttle {
  readonly #perMs: number
  readonly #burst: number
  #left: number
  #atMs: number

  constructor({ perSecond, burst }: { perSecond: number; burst: number }, nowMs: number) {
    this.#perMs = perSecond / 1000
    this.#burst = burst
    this.#left = burst
    this.#atMs = nowMs
  }

  /** Takes that amount, and returns how long to take nothing more. */
  take(amount: number, nowMs: number): number {
    const earned = (nowMs - this.#atMs) * this.#perMs
    this.#left = Math.min(this.#burst, this.#left + earned) - amount
    this.#atMs = nowMs
    return Math.max(0, -this.#left / this.#perMs)
  }
}
