import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync } from "node:fs"
import { join } from "node:path"

/** The directory below which the shared directories of all sandboxes lie. */
export const placeOfShared = (dataDir: string): string => join(dataDir, "shared")

/** The name of that directory in earlier versions. */
const earlierPlace = (dataDir: string): string => join(dataDir, "links")

/** Where shared directories lie that no server of this version has moved yet: they can be read there. */
export const foundPlaceOfShared = (dataDir: string): string => {
  const place = placeOfShared(dataDir)
  const earlier = earlierPlace(dataDir)
  return !existsSync(place) && existsSync(earlier) ? earlier : place
}

/**
 * Moves the shared directories that an earlier version made to their place. Sandboxes that run keep theirs: a mount
 * follows its directory. A repeated call finishes what a crash cut short.
 */
export const moveEarlierShared = (dataDir: string): void => {
  const earlier = earlierPlace(dataDir)
  if (!existsSync(earlier)) return
  const place = placeOfShared(dataDir)
  mkdirSync(place, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(earlier)) {
    const to = join(place, name)
    if (existsSync(to)) rmSync(join(earlier, name), { recursive: true, force: true })
    else renameSync(join(earlier, name), to)
  }
  rmdirSync(earlier)
}
