// What stands beside the modules in the one script that pages load (reporter.report.templating).

/** The Vega configuration of each theme, from reporter.charts.styles. */
declare const THEMES: { light: object; dark: object };

/** Newer than the list of TypeScript that checks this. */
declare class DecompressionStream {
  constructor(format: "gzip");
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}

interface Window {
  vegaEmbed(element: Element, spec: object, options: object): Promise<{ view: any; finalize: () => void }>;
  /** Data that a page loads are scripts, which call one of these. */
  reporterPart: (name: string, value: any) => void;
  /** In a report of one file: the text that is packed in it under a name, or null where it has none. */
  reporterPacked?: (name: string) => Promise<string> | null;
  reporterHolds: (name: string) => boolean;
}

/** Newer than Debian's tsc. */
interface Element { checkVisibility(): boolean }
