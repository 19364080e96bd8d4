import { z } from "zod"
import { idPattern, randomId } from "./random-id.ts"

/** A name that a person chose. It becomes part of paths, labels and host names, so its form is narrow. */
export const Slug = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,62}$/, "must be 1–63 of a–z, 0–9 and -, starting with a letter")
  .brand<"Slug">()
export type Slug = z.infer<typeof Slug>

/** The schema of ids with this prefix. */
export const idWith = <Prefix extends string>(prefix: Prefix) =>
  z.string().regex(idPattern(prefix), `must be an id of the form ${prefix}-…`).brand<Prefix>()

export const InstallationId = idWith("inst")
export type InstallationId = z.infer<typeof InstallationId>
export const SandboxId = idWith("sb")
export type SandboxId = z.infer<typeof SandboxId>
export const SessionId = idWith("ses")
export type SessionId = z.infer<typeof SessionId>
export const PromptId = idWith("pr")
export type PromptId = z.infer<typeof PromptId>
export const LeaseId = idWith("ls")
export type LeaseId = z.infer<typeof LeaseId>
export const LayerId = idWith("ly")
export type LayerId = z.infer<typeof LayerId>
export const TopId = idWith("tp")
export type TopId = z.infer<typeof TopId>
export const PinId = idWith("pin")
export type PinId = z.infer<typeof PinId>

/** Makes a new id: `newId.sandbox()`. */
export const newId = {
  installation: () => InstallationId.parse(randomId("inst")),
  sandbox: () => SandboxId.parse(randomId("sb")),
  session: () => SessionId.parse(randomId("ses")),
  prompt: () => PromptId.parse(randomId("pr")),
  lease: () => LeaseId.parse(randomId("ls")),
  layer: () => LayerId.parse(randomId("ly")),
  top: () => TopId.parse(randomId("tp")),
  pin: () => PinId.parse(randomId("pin")),
}
