/** Every sandbox has this many user and group ids, from the store's base on. */
export const ID_COUNT = 65_536

/** What the kernel shows of an owner outside of the range. */
const NOBODY = 65_534

/** An owner on this disk as the sandbox sees it, which is also how archives name it. */
export const inside = (id: number, idBase: number): number =>
  id >= idBase && id < idBase + ID_COUNT ? id - idBase : NOBODY

/** Undefined if no sandbox has such an id. */
export const outside = (id: number, idBase: number): number | undefined =>
  id >= 0 && id < ID_COUNT ? id + idBase : undefined
