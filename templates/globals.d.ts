// What stands beside the modules in the one script that pages load (reporter.report.assets).

/** The Vega configuration of each theme, from reporter.charts.styles. */
declare const THEMES: { light: object; dark: object };

interface Window {
  vegaEmbed(element: Element, spec: object, options: object): Promise<{ view: any }>;
  /** Data that a page loads are scripts, which call one of these. */
  reporterPart: (name: string, value: any) => void;
}
