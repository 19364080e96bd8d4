import { z } from "zod"

/** A name that a person chose. It becomes part of paths, labels and host names, so its form is narrow. */
export const Slug = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,62}$/, "must be 1–63 of a–z, 0–9 and -, starting with a letter")
  .brand<"Slug">()
export type Slug = z.infer<typeof Slug>

/** A made id: a prefix that names its kind, then 20 characters of a 32-letter alphabet (100 random bits). */
const id = <Prefix extends string>(prefix: Prefix) =>
  z
    .string()
    .regex(
      new RegExp(`^${prefix}-[0-9a-hjkmnp-tv-z]{20}$`),
      `must be an id of the form ${prefix}-…`,
    )
    .brand<Prefix>()

export const InstallationId = id("inst")
export type InstallationId = z.infer<typeof InstallationId>
export const SandboxId = id("sb")
export type SandboxId = z.infer<typeof SandboxId>
export const SessionId = id("ses")
export type SessionId = z.infer<typeof SessionId>
export const PromptId = id("pr")
export type PromptId = z.infer<typeof PromptId>
export const LeaseId = id("ls")
export type LeaseId = z.infer<typeof LeaseId>
export const LayerId = id("ly")
export type LayerId = z.infer<typeof LayerId>
export const TopId = id("tp")
export type TopId = z.infer<typeof TopId>
export const PinId = id("pin")
export type PinId = z.infer<typeof PinId>

const CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
const ID_LETTERS = 20

/** Makes a new id: `newId.sandbox()`. */
export const newId = {
  installation: () => InstallationId.parse(random("inst")),
  sandbox: () => SandboxId.parse(random("sb")),
  session: () => SessionId.parse(random("ses")),
  prompt: () => PromptId.parse(random("pr")),
  lease: () => LeaseId.parse(random("ls")),
  layer: () => LayerId.parse(random("ly")),
  top: () => TopId.parse(random("tp")),
  pin: () => PinId.parse(random("pin")),
}

const random = (prefix: string): string => {
  const letters = crypto.getRandomValues(new Uint8Array(ID_LETTERS))
  return `${prefix}-${Array.from(letters, (byte) => CROCKFORD[byte % CROCKFORD.length]).join("")}`
}
