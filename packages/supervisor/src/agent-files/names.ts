import { basename, dirname, join } from "node:path"

/**
 * What may lie beside an agent's file, under names that are Berth's own:
 *
 *   aside   what is to be put in place, whole or not
 *   old     what was ours and is replaced
 *   mark    the fingerprint of what was copied, which tells a copy of ours from what is the user's
 *
 * The first two are there only while a boot works, or after one that was cut short.
 */
export const namesBeside = (place: string) => {
  const name = basename(place)
  const beside = (what: string) => join(dirname(place), `.${name}.berth-${what}`)
  return { aside: beside("aside"), old: beside("old"), mark: beside("copy") }
}
