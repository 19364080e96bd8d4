export interface Backoff {
  readonly firstMs: number
  readonly mostMs: number
}

/** Beyond this many failures the wait of every user has reached its bound. */
const MOST_DOUBLINGS = 20

/** The wait after this many failures in a row: doubled with each of them, up to the bound. */
export const backoffMs = (failures: number, { firstMs, mostMs }: Backoff): number =>
  Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, MOST_DOUBLINGS))
