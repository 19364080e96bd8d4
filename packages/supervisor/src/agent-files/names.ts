import { basename, dirname, join } from "node:path"

/**
 * Berth's own names beside an agent's file:
 *
 *   aside   the new file or tree, perhaps incomplete
 *   old     a former one of ours that is being replaced
 *   mark    the fingerprint of a copy, which tells our copy from the user's own file
 *
 * The first two exist only during a boot, or after one that was interrupted.
 */
export const namesBeside = (place: string) => {
  const name = basename(place)
  const beside = (what: string) => join(dirname(place), `.${name}.berth-${what}`)
  return { aside: beside("aside"), old: beside("old"), mark: beside("copy") }
}
