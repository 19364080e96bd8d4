/** A mount in the words of the engine's API. */
export interface EngineMount {
  readonly Type: "bind" | "volume"
  readonly Source: string
  readonly Target: string
  readonly ReadOnly: boolean
  readonly BindOptions?: { readonly Propagation: "rprivate"; readonly NonRecursive: boolean }
  /** Without it the engine fills a new volume with what the image has at its target. */
  readonly VolumeOptions?: { readonly NoCopy: true }
}
