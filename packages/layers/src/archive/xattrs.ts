import { XATTR } from "../tar/pax.ts"
import { refuse } from "../tar/refuse.ts"
import { inside, outside } from "./ids.ts"

/**
 * The attributes of one entry as they stand in an archive: those of the user's own, and access rights with the ids of
 * the inside. All others say something of this disk only (labels of the host, marks of an overlay) and stay behind.
 */
export const xattrsOut = (
  pax: ReadonlyMap<string, Buffer>,
  idBase: number,
): Map<string, Buffer> => {
  const kept = new Map<string, Buffer>()
  for (const [key, value] of pax) {
    if (!key.startsWith(XATTR)) continue
    const kind = kindOf(key.slice(XATTR.length))
    const out =
      kind === "acl"
        ? mapAcl(value, (id) => inside(id, idBase))
        : kind === "capability"
          ? capabilityOut(value, idBase)
          : kind === undefined
            ? undefined
            : value
    if (out !== undefined) kept.set(key, out)
  }
  return kept
}

/** The reverse of `xattrsOut`. Refuses attributes that could not have come from it. */
export const xattrsIn = (
  pax: ReadonlyMap<string, Buffer>,
  idBase: number,
  entry: string,
): Map<string, Buffer> => {
  const taken = new Map<string, Buffer>()
  for (const [key, value] of pax) {
    if (!key.startsWith(XATTR)) continue
    const name = key.slice(XATTR.length)
    switch (kindOf(name)) {
      case "own":
        taken.set(key, value)
        break
      case "acl":
        taken.set(
          key,
          mapAcl(value, (id) => outside(id, idBase)) ?? refuse(`${name} is damaged`, entry),
        )
        break
      case "capability":
        taken.set(key, capabilityIn(value, idBase) ?? refuse(`${name} is damaged`, entry))
        break
      default:
        refuse(`the attribute ${name} has no place in an archive`, entry)
    }
  }
  return taken
}

/** The kernel takes 255 bytes; the rest of the pattern keeps a name from being read as something else on its way. */
const OWN = /^user\.[\x21-\x7e\x80-\xff]{1,250}$/

type Kind = "own" | "acl" | "capability"

const kindOf = (name: string): Kind | undefined => {
  if (name === "system.posix_acl_access" || name === "system.posix_acl_default") return "acl"
  if (name === "security.capability") return "capability"
  if (OWN.test(name) && !name.startsWith("user.overlay.")) return "own"
  return undefined
}

const ACL_VERSION = 2
const ACL_HEADER_BYTES = 4
const ACL_ENTRY_BYTES = 8
/** The tags of entries that name a user or a group; the others have no id. */
const NAMING_TAGS = [0x02, 0x08]

const mapAcl = (value: Buffer, map: (id: number) => number | undefined): Buffer | undefined => {
  const entries = (value.length - ACL_HEADER_BYTES) / ACL_ENTRY_BYTES
  if (!Number.isInteger(entries) || entries < 0) return undefined
  if (value.readUInt32LE(0) !== ACL_VERSION) return undefined
  const mapped = Buffer.from(value)
  for (let at = ACL_HEADER_BYTES; at < value.length; at += ACL_ENTRY_BYTES) {
    if (!NAMING_TAGS.includes(value.readUInt16LE(at))) continue
    const id = map(value.readUInt32LE(at + 4))
    if (id === undefined) return undefined
    mapped.writeUInt32LE(id, at + 4)
  }
  return mapped
}

/** Revision 2 holds for the host's root, revision 3 for the root of one range of ids, named at its end. */
const CAPABILITY_2_BYTES = 20
const CAPABILITY_3_BYTES = 24
const REVISION_MASK = 0xff000000
const REVISION_2 = 0x02000000
const REVISION_3 = 0x03000000

/** In an archive a capability belongs to "the root inside": revision 2, without a range. */
const capabilityOut = (value: Buffer, idBase: number): Buffer | undefined => {
  const revision = revisionOf(value)
  if (idBase === 0) return revision === REVISION_2 ? value : undefined
  if (revision !== REVISION_3 || value.readUInt32LE(CAPABILITY_2_BYTES) !== idBase) return undefined
  return withRevision(value.subarray(0, CAPABILITY_2_BYTES), REVISION_2)
}

const capabilityIn = (value: Buffer, idBase: number): Buffer | undefined => {
  if (revisionOf(value) !== REVISION_2) return undefined
  if (idBase === 0) return value
  const root = Buffer.alloc(4)
  root.writeUInt32LE(idBase)
  return withRevision(Buffer.concat([value, root]), REVISION_3)
}

const revisionOf = (value: Buffer): number | undefined => {
  if (value.length !== CAPABILITY_2_BYTES && value.length !== CAPABILITY_3_BYTES) return undefined
  const revision = (value.readUInt32LE(0) & REVISION_MASK) >>> 0
  const expected = value.length === CAPABILITY_2_BYTES ? REVISION_2 : REVISION_3
  return revision === expected ? revision : undefined
}

const withRevision = (value: Buffer, revision: number): Buffer => {
  const changed = Buffer.from(value)
  changed.writeUInt32LE(((value.readUInt32LE(0) & ~REVISION_MASK) | revision) >>> 0)
  return changed
}
