/** Every sandbox has this many user and group ids, from the store's base on. */
const ID_COUNT = 65_536

/** The id that the kernel shows for an owner outside of the range. */
const NOBODY = 65_534

/** Translates an owner on this disk to the id that the sandbox sees. Archives name owners by that id, too. */
export const inside = (id: number, idBase: number): number =>
  id >= idBase && id < idBase + ID_COUNT ? id - idBase : NOBODY

/** Translates an id of the inside to the one on this disk; undefined if no sandbox has such an id. */
export const outside = (id: number, idBase: number): number | undefined =>
  id >= 0 && id < ID_COUNT ? id + idBase : undefined
